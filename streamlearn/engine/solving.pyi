# Nothing here is open to Python code: solve is for compiled code only.
