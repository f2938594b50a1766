import { notFound } from 'next/navigation';
import { openModel } from '../../model.js';

export const dynamic = 'force-dynamic';

/** The first elements: a slice of the dimensions before the last, which reads nothing else. */
const MOST = 16;

export default async function Page({ searchParams }) {
  const { name } = await searchParams;
  const file = await openModel();
  if (typeof name !== 'string' || !file.has(name)) notFound();
  const tensor = file.getTensor(name);
  const first = tensor.shape.map((_, i, { length }) => (i + 1 < length ? 0 : [0, MOST]));
  const isEmpty = tensor.elementCount === 0;
  const values = isEmpty ? [] : Array.from(tensor.slice(...first).toFloat32());
  return (
    <main>
      <h1>{name}</h1>
      <p>{`${tensor.dtype}, ${tensor.shape.join(' × ')}, ${tensor.byteLength} bytes`}</p>
      <p>{values.join(', ')}</p>
    </main>
  );
}
