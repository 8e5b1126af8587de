# Only compiled code writes there.
