// Prints the builtin modules that importing the package loads, beyond those of bare Node.
const before = new Set(process.moduleLoadList);
await import('../../../lib/index.js');
console.log(JSON.stringify(process.moduleLoadList.filter((name) => !before.has(name))));
