/** Prints a line: what starting Node costs without any package. */
console.log(0);
