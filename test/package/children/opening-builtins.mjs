// Prints the builtin modules that `open` of a checkpoint loads, beyond those of bare Node.
const before = new Set(process.moduleLoadList);
const { open } = await import('../../../lib/index.js');
const checkpoint = await open(process.argv[2]);
checkpoint.keys();
console.log(JSON.stringify(process.moduleLoadList.filter((name) => !before.has(name))));
