"""How `reqnn` fares with damaged files, killed trainings and rotated shapes."""
