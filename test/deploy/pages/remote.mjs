// A page in a browser: opens checkpoints on the Hub, on another site and in a dropped file, and posts its results to
// its own server. The query gives their addresses.
import { open, RemoteError } from 'safetensors-mmap';

const query = new URL(location.href).searchParams;

/** Plays the Hub, on this machine. */
function fetchFromHub(url, options) {
  return fetch(url.replace('https://huggingface.co', query.get('hub')), options);
}

async function read(source, options) {
  const checkpoint = await open(source, options);
  const names = checkpoint.keys();
  const [name] = names;
  const tensor = await checkpoint.getTensor(name);
  const row = await checkpoint.getSlice(name, -1);
  checkpoint.close();
  return {
    path: checkpoint.path,
    names,
    dtype: tensor.dtype,
    shape: tensor.shape,
    values: [...tensor.toFloat32()],
    lastRow: [...row.toFloat32()],
  };
}

/** Drops a file on the page, and returns the result of the page's handler. */
async function drop(name, url) {
  const bytes = await (await fetch(url)).arrayBuffer();
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([bytes], name));
  const dropped = new Promise((resolve) => {
    document.body.addEventListener('drop', (event) => {
      event.preventDefault();
      resolve(event.dataTransfer.files[0]);
    });
  });
  document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, cancelable: true }));
  return await dropped;
}

const CASES = {
  hub: () => read(query.get('source'), { fetch: fetchFromHub }),
  token: () => read(query.get('source'), { fetch: fetchFromHub, token: query.get('token') }),
  anotherSite: () => read(query.get('source')),
  dropped: async () => read(await drop('model.safetensors', '/dropped')),
  missing: async () => {
    const error = await open(query.get('source')).catch((thrown) => thrown);
    return { isRemoteError: error instanceof RemoteError, code: error.code, status: error.status };
  },
};

async function run() {
  try {
    return await CASES[query.get('case')]();
  } catch (error) {
    return { error: `${error}\n${error?.stack}` };
  }
}

await fetch('/result', { method: 'POST', body: JSON.stringify(await run()) });
