// Without its own file, Vitest takes that of a folder above.
export default { test: { globals: true, include: ['module.test.mjs'] } };
