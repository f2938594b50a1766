test('a CommonJS test imports the package', async () => {
  const { mappingStatus, parse, serialize } = await import('safetensors-mmap');
  const data = Uint8Array.of(1, 2);
  const bytes = serialize({ t: { dtype: 'U8', shape: [2], data } });
  expect(parse(bytes).getTensor('t').data).toStrictEqual(data);
  expect(mappingStatus()).toMatchObject({ available: true });
});
