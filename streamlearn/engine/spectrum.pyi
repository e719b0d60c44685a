# Nothing here is open to Python code: largest_eigenvalue is for compiled code only.
