"""The pages: one module for each part of the navigation, each ends in ROUTES."""
