"""What every layer speaks: kernels, index expressions and layouts, with printer, parser and verifier."""
