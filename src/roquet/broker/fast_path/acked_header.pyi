# Only compiled code reads headers here.
