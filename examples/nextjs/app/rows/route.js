/** `GET /rows?name=embed.weight&ids=1,2`: rows of a table as JSON. */
import { openModel } from '../../model.js';

export const dynamic = 'force-dynamic';

const MOST = 512;

export async function GET(request) {
  const { searchParams } = new URL(request.url);
  const name = searchParams.get('name') ?? '';
  const ids = (searchParams.get('ids') ?? '').split(',').map(Number);
  if (!ids.every(Number.isInteger) || ids.length > MOST) {
    return Response.json({ message: `ids: up to ${MOST} integers` }, { status: 400 });
  }
  const file = await openModel();
  if (!file.has(name)) return Response.json({ message: `no tensor "${name}"` }, { status: 404 });
  const table = file.getTensor(name);
  try {
    // On a thread of the pool; ends when the client goes away.
    const values = await table.takeFloat32Async(ids, { signal: request.signal });
    return Response.json({
      shape: [ids.length, ...table.shape.slice(1)],
      values: Array.from(values),
    });
  } catch (error) {
    if (error.code !== 'SAFETENSORS_SLICE_OUT_OF_RANGE') throw error;
    return Response.json({ message: error.message }, { status: 400 });
  }
}
