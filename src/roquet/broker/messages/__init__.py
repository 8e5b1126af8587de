"""Messages on their way in and out: appended, announced, waited for, tried again."""
