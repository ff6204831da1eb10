"""From text to models and back: YAML with positions, expressions, mistakes of form, the JSON Schema."""
