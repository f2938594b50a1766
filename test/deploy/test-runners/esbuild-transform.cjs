// Makes CommonJS of the package and leaves its `import.meta` empty, as TypeScript and Babel do too.
const { transformSync } = require('esbuild');

exports.process = (source, path) => transformSync(source, { format: 'cjs', sourcefile: path });
