/** Classes and functions that are not on torch's list: their placeholders, and tensors in them. */
import { describe, expect, it } from 'vitest';
import { openTorchCheckpoint } from '../../../src/foreign/torch/open.js';
import { unicode } from '../pickle/pickle-bytes.js';
import { fixturePath } from './fixtures.js';
import { dict, legacyFile, tensor } from './legacy-file.js';
import { refusal } from './rejection.js';

describe('unknown globals', () => {
  it('leaves out a tensor in an unknown object by its name', () => {
    const object = `cargparse\nNamespace\n)\x81}${unicode('w')}${tensor('0', [2])}sb`;
    const path = legacyFile(dict([unicode('args'), object], [unicode('v'), tensor('0', [2])]), {
      0: 2,
    });
    using checkpoint = openTorchCheckpoint(path, { unknownGlobals: 'placeholder', root: [] });
    expect(checkpoint.keys()).toEqual(['v']);
    const [error] = checkpoint.problems;
    expect([error?.code, error?.tensor]).toEqual(['SAFETENSORS_UNSUPPORTED_TENSOR', 'args.w']);
    expect(error?.message).toContain('a tensor in an object of argparse.Namespace');
  });

  it('finds the state dict in a dict of an unknown kind', () => {
    const weights = dict([unicode('w'), tensor('0', [2])]);
    const object = `ccollections\ndefaultdict\n)R(${unicode('state_dict')}${weights}${unicode('epoch')}K\x03u`;
    const path = legacyFile(object, { 0: 2 });
    const unknownGlobals = 'placeholder';
    for (const root of [undefined, 'state_dict']) {
      using checkpoint = openTorchCheckpoint(path, { unknownGlobals, root });
      expect([checkpoint.root, checkpoint.keys()]).toEqual([['state_dict'], ['w']]);
    }
    const { message } = refusal(path, { unknownGlobals, root: 'model' });
    expect(message).toContain('it has the keys "state_dict", "epoch"');
  });

  it('leaves out a tensor of an unknown subclass by its name', () => {
    using checkpoint = openTorchCheckpoint(fixturePath('zip-subclass.pt'), {
      unknownGlobals: 'placeholder',
    });
    const [error] = checkpoint.problems;
    expect(error?.code).toBe('SAFETENSORS_UNSUPPORTED_TENSOR');
    expect(error?.message).toMatch(/tensor "[^"]+": .* the subclass .*; save x.as_subclass/);
  });

  it('keeps the types of Python 2, by which protocol 2 names those of Python 3', () => {
    const counts = 'ccollections\ndefaultdict\nc__builtin__\nlong\n\x85R';
    const path = legacyFile(dict([unicode('d'), counts], [unicode('w'), tensor('0', [2])]), {
      0: 2,
    });
    using checkpoint = openTorchCheckpoint(path, { unknownGlobals: 'placeholder' });
    expect(checkpoint.keys()).toEqual(['w']);
  });

  it.each([
    ['cPickle', 'loads'],
    ['io', 'open'],
    ['_io', 'FileIO'],
    ['torch', 'load'],
    ['torch.hub', 'load'],
    ['types', 'FunctionType'],
    ['logging', 'FileHandler'],
    ['numpy.testing._private.utils', 'runstring'],
    ['zipimport', 'zipimporter'],
    ['_posixsubprocess', 'fork_exec'],
    ['dill', 'loads'],
    ['joblib', 'load'],
  ])('does not keep %s.%s', (module, name) => {
    const path = legacyFile(dict([unicode('f'), `c${module}\n${name}\n`]), {});
    const error = refusal(path, { unknownGlobals: 'placeholder' });
    expect(error.code).toBe('SAFETENSORS_FORBIDDEN_GLOBAL');
    expect(error.message).not.toContain('placeholder');
  });

  it('says of a file that pickle wrote what it is, and what to do', () => {
    const storage = 'ctorch.storage\n_load_from_bytes\n)R';
    const made = `ctorch._utils\n_rebuild_tensor_v2\n(${storage}K\0)))\x89NtR`;
    const path = legacyFile(dict([unicode('a'), made]), {});
    for (const unknownGlobals of ['refuse', 'placeholder'] as const) {
      const { message } = refusal(path, { unknownGlobals });
      expect(message).toContain('pickle wrote, and not torch.save: scanPickle lists what');
      expect(message).not.toContain('unknownGlobals');
    }
  });
});
