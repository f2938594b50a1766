import { describe, expect, it } from 'vitest';
import { lackingDtypes } from '../../src/inspect/torch-dtypes.js';
import { DTYPES } from '../support/api.js';
import { findPython, isSkipped, runPython, titleWith } from '../support/python.js';

describe('torch', () => {
  it.each([
    ['F8_E4M3', 'torch below 2.1'],
    ['F8_E5M2', 'torch below 2.1'],
    ['F8_E4M3FNUZ', 'torch below 2.2'],
    ['F8_E5M2FNUZ', 'torch below 2.2'],
    ['U16', 'torch below 2.3'],
    ['U32', 'torch below 2.3'],
    ['U64', 'torch below 2.3'],
    ['F8_E8M0', 'torch below 2.7'],
    ['F4', 'torch below 2.8'],
    ['F6_E2M3', 'torch'],
    ['F6_E3M2', 'torch'],
  ])('lacks %s: %s', (dtype, versions) => {
    expect(lackingDtypes([dtype])).toEqual([`${versions} has no ${dtype}`]);
  });

  it('has the others from long ago', () => {
    const others = Object.keys(DTYPES).filter((dtype) => lackingDtypes([dtype]).length === 0);
    expect(others.toSorted()).toEqual(
      ['BF16', 'BOOL', 'C64', 'F16', 'F32', 'F64', 'I16', 'I32', 'I64', 'I8', 'U8'].toSorted(),
    );
  });

  it('is one line for each version', () => {
    expect(lackingDtypes(['U64', 'F32', 'F4', 'U16'])).toEqual([
      'torch below 2.3 has no U16, U64',
      'torch below 2.8 has no F4',
    ]);
  });
});

const python = findPython('torch');

describe.skipIf(isSkipped(python))(titleWith(python, 'torch of today'), () => {
  it('has all but those of 6 bits', () => {
    const names =
      'float8_e4m3fn float8_e4m3fnuz uint16 uint32 uint64 float8_e8m0fnu float4_e2m1fn_x2';
    const program = `import sys, torch; print(*(hasattr(torch, name) for name in sys.argv[1:]))
print([name for name in dir(torch) if name.startswith('float6_')])`;
    const stdout = runPython(python, ['-c', program, ...names.split(' ')]);
    expect(stdout.trim().split(/\r?\n/)).toEqual(['True True True True True True True', '[]']);
  });
});
