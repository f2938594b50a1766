import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planPartition } from '../../src/tensor/partition.js';

const context = { path: 'x', tensor: 't' };

describe('planPartition', () => {
  it('covers every row once, in order', () => {
    const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(shapes, fc.nat(3), fc.integer({ min: 1, max: 9 }), (parts, at, worldSize) => {
        const dim = at % parts.length;
        const shape = parts.map((length, i) => (i === dim ? length * worldSize : length));
        let next = 0;
        for (let rank = 0; rank < worldSize; rank++) {
          const plan = planPartition(shape, { rank, worldSize, dim }, context);
          expect(plan).toEqual([...Array(dim).fill(null), [next, next + (parts[dim] as number)]]);
          expect(
            planPartition(shape, { rank, worldSize, dim: dim - shape.length }, context),
          ).toEqual(plan);
          next += parts[dim] as number;
        }
        expect(next).toBe(shape[dim]);
      }),
    );
  });

  it.each([
    ['a scalar', [], { rank: 0, worldSize: 1 }, 'SAFETENSORS_SLICE_OUT_OF_RANGE'],
    ['no such dimension', [4], { rank: 0, worldSize: 1, dim: 1 }, 'SAFETENSORS_SLICE_OUT_OF_RANGE'],
    ['none backwards', [4], { rank: 0, worldSize: 1, dim: -2 }, 'SAFETENSORS_SLICE_OUT_OF_RANGE'],
    ['a remainder', [4, 6], { rank: 0, worldSize: 4, dim: 1 }, 'SAFETENSORS_NOT_DIVISIBLE'],
    ['a rank too high', [4], { rank: 2, worldSize: 2 }, 'ERR_OUT_OF_RANGE'],
    ['no world', [4], { rank: 0, worldSize: 0 }, 'ERR_OUT_OF_RANGE'],
    ['half a rank', [4], { rank: 0.5, worldSize: 2 }, 'ERR_OUT_OF_RANGE'],
    ['text', [4], { rank: '0' as never, worldSize: 2 }, 'ERR_INVALID_ARG_TYPE'],
    ['half a dim', [4], { rank: 0, worldSize: 2, dim: 0.5 }, 'ERR_INVALID_ARG_TYPE'],
    ['dims', [4], { rank: 0, worldSize: 2, dims: 1 } as never, 'ERR_INVALID_ARG_VALUE'],
    ['nothing', [4], undefined as never, 'ERR_INVALID_ARG_TYPE'],
  ])('refuses %s', (_, shape, partition, code) => {
    expect(() => planPartition(shape, partition, context)).toThrow(
      expect.objectContaining({ code }),
    );
  });

  it('is of the first dimension unless told', () => {
    expect(planPartition([4, 6], { rank: 1, worldSize: 2 }, context)).toEqual([[2, 4]]);
  });

  it('says what it expected', () => {
    const plan = (shape: number[], partition: unknown) => () =>
      planPartition(shape, partition as never, context);
    expect(plan([4], undefined)).toThrow(/partition.*an object with rank and worldSize/);
    expect(plan([4], 1)).toThrow(/partition.*an object with rank and worldSize/);
    expect(plan([], { rank: 0, worldSize: 1 })).toThrow(
      'expected a tensor with dimensions, found a scalar',
    );
    expect(plan([4, 2], { rank: 0, worldSize: 1, dim: 2 })).toThrow(
      'expected dim from -2 to 1, found 2',
    );
  });
});
