/** Returns `full` in a nightly run (`SAFETENSORS_NIGHTLY=1`), else `short`. */
export function nightly<T>(full: T, short: T): T {
  return process.env['SAFETENSORS_NIGHTLY'] === '1' ? full : short;
}
