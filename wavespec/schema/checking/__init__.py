"""What a spec means goes in; what makes no sense in it comes out, one concern a file. `check_spec` asks them all."""
