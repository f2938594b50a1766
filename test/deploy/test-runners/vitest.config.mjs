// Without a file of its own, Vitest takes that of a folder above.
export default { test: { globals: true, include: ['module.test.mjs'] } };
