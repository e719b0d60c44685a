# Nothing here is open to Python code: choose_smoothness is for compiled code only.
