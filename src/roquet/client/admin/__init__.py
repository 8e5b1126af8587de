"""Requests of operators, one module for each subject; `admin` has the public class."""
