// A page of a careful stranger: compiled, not run, with the types of browsers and none of Node.
import { open, RemoteError, type Tensor } from 'safetensors-mmap';
import { parseSafetensorsMetadata, type SafetensorsParseFromRepo } from 'safetensors-mmap/hub';

export async function firstRow(dropped: File): Promise<Float32Array> {
  const checkpoint = await open(dropped);
  const [name = ''] = checkpoint.keys();
  const row: Tensor = await checkpoint.getSlice(name, 0, { signal: AbortSignal.timeout(1000) });
  return row.toFloat32();
}

export async function shapeAt(url: URL, token: string): Promise<readonly number[] | number> {
  try {
    const options = { token, headers: { 'x-key': '1' }, fetch: window.fetch, concurrency: 4 };
    const checkpoint = await open(`https://${url.host}${url.pathname}`, options);
    const tensors: Map<string, Tensor> = await checkpoint.readTensors(['norm.weight']);
    const size: number = await checkpoint.byteLength();
    return tensors.get('norm.weight')?.shape ?? size;
  } catch (error) {
    if (error instanceof RemoteError) return error.status ?? 0;
    throw error;
  }
}

// @ts-expect-error no such option
export const misspelt: unknown = open('https://models.example/', { tokn: '' });

export async function fileCount(repo: string): Promise<number> {
  const parsed: SafetensorsParseFromRepo = await parseSafetensorsMetadata({ repo });
  return parsed.sharded ? Object.keys(parsed.headers).length : 1;
}
