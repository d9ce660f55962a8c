// Gives the precompiled header an object to be made for.
