// With a transform that does not know `import.meta.url`.
module.exports = {
  transform: { '/safetensors-mmap/lib/': './esbuild-transform.cjs' },
  transformIgnorePatterns: ['/node_modules/(?!.*safetensors-mmap/)'],
  setupFiles: ['./setup.cjs'],
};
