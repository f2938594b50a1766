import { mappingStatus } from 'safetensors-mmap';

test('a test can name the addon', () => {
  process.env.SAFETENSORS_MMAP_ADDON = '/nowhere/addon.node';
  const reason = expect.stringContaining('/nowhere/addon.node');
  expect(mappingStatus()).toMatchObject({ available: false, reason });
});
