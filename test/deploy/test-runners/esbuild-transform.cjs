// Makes CommonJS of the package: leaves its `import.meta` empty, and makes `require` of `import()`, as TypeScript and
// Babel do too.
const { transformSync } = require('esbuild');

exports.process = (source, path) =>
  transformSync(source, {
    format: 'cjs',
    supported: { 'dynamic-import': false },
    sourcefile: path,
  });
