"""The papers' experiments, repeated with streamlearn itself. `sh tools/reproduce/run --help`."""
