import { describe, expect, it } from 'vitest';
import type { Dtype } from '../../../src/header/dtype.js';
import {
  type CountedTensor,
  remainingParameters,
} from '../../../src/write/selection/total-parameters.js';

function tensors(...given: readonly [string, Dtype, number[]][]): CountedTensor[] {
  return given.map(([name, dtype, shape]) => ({ name, info: { dtype, shape } }));
}

/** Where the headers of all tensors are known. */
function count(
  taken: readonly CountedTensor[],
  all: readonly CountedTensor[],
  declared: string,
): number | null {
  return remainingParameters(taken, all, namesOf(all), declared);
}

const namesOf = (all: readonly CountedTensor[]): string[] => all.map(({ name }) => name);

describe('parameters of a part', () => {
  const all = tensors(['a', 'F32', [10, 4]], ['b', 'F32', [10, 4]], ['c', 'BF16', []]);

  it('are its elements, at most what the whole model declares', () => {
    expect(count(all.slice(0, 1), all, '81')).toBe(40);
    expect(count(all.slice(1), all, '81')).toBe(41);
    // Tied tensors, which the model counts once.
    expect(count(all.slice(0, 2), all, '41')).toBe(41);
    expect(count(all.slice(0, 2), all, 'unknown')).toBe(80);
    expect(count(all.slice(0, 2), all, '')).toBe(80);
  });

  it('are not scales, and cannot be told of packed weights', () => {
    const fp8 = tensors(['m.weight', 'F8_E4M3', [8, 8]], ['m.weight_scale', 'F32', [8]]);
    const gptq = tensors(['q.qweight', 'I32', [8]], ['q.scales', 'F16', [8]]);
    expect(count(fp8, [...fp8, ...gptq], '1000')).toBe(64);
    expect(count([...fp8, ...gptq], [...fp8, ...gptq], '1000')).toBeNull();
    // What makes it one is in another file, of which the names are known.
    const [qweight] = gptq as [CountedTensor];
    expect(remainingParameters([qweight], [qweight], namesOf(gptq), '1000')).toBeNull();
  });
});
