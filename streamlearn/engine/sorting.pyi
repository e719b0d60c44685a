# Nothing here is open to Python code: sort_columns is for compiled code only.
