/** Dtypes that older PyTorch versions lack: opening the file there fails. */

/**
 * The first torch version with each dtype. 2.1 and 2.3: checks in `safetensors/torch.py` of safetensors 0.8.0. 2.2:
 * pytorch#107586, which missed 2.1. 2.7: pytorch#147466, and 2.6 lacks it (ComfyUI-nunchaku#232). 2.8: the guards of
 * torchao's `mx_formats`. Torch 2.13 has none of 6 bits.
 */
const SINCE: readonly (readonly [dtypes: readonly string[], version: string | null])[] = [
  [['F8_E4M3', 'F8_E5M2'], '2.1'],
  [['F8_E4M3FNUZ', 'F8_E5M2FNUZ'], '2.2'],
  [['U16', 'U32', 'U64'], '2.3'],
  [['F8_E8M0'], '2.7'],
  [['F4'], '2.8'],
  [['F6_E2M3', 'F6_E3M2'], null],
];

/**
 * Tells which versions of torch lack some of these dtypes: they fail to open a file that has them. One line for each
 * version; none when every version has all.
 *
 * @example
 * ```ts
 * console.log(lackingDtypes(['BF16', 'F8_E4M3'])); // → [ 'torch below 2.1 has no F8_E4M3' ]
 * ```
 */
export function lackingDtypes(dtypes: Iterable<string>): string[] {
  const given = new Set(dtypes);
  return SINCE.flatMap(([listed, version]) => {
    const found = listed.filter((dtype) => given.has(dtype));
    const torch = version === null ? 'torch' : `torch below ${version}`;
    return found.length === 0 ? [] : [`${torch} has no ${found.join(', ')}`];
  });
}
