"""Questions and orders of operators, one module for each subject; `admin` is the face."""
