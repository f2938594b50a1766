// For `require` without --experimental-vm-modules, as docs/bundlers.md has it.
module.exports = {
  transform: { '/safetensors-mmap/lib/': '@swc/jest', '\\.[jt]sx?$': 'babel-jest' },
  transformIgnorePatterns: ['/node_modules/(?!.*safetensors-mmap/)'],
};
