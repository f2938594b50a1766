import Link from 'next/link';
import { openModel } from '../model.js';

// What the page shows is found out when it is asked for, not when the app is built.
export const dynamic = 'force-dynamic';

export default async function Page() {
  const file = await openModel();
  const tensors = file.keys().map((name) => ({ name, ...file.info(name) }));
  return (
    <main>
      <h1>{`${tensors.length} tensors`}</h1>
      <table>
        <tbody>
          {tensors.map(({ name, dtype, shape }) => (
            <tr key={name}>
              <td>
                <Link href={{ pathname: '/tensor', query: { name } }}>{name}</Link>
              </td>
              <td>{dtype}</td>
              <td>{shape.join(' × ')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </main>
  );
}
