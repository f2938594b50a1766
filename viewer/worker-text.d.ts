/** The bundled worker, which scripts/viewer.mjs puts in. */
declare module 'worker-text' {
  const text: string;
  export default text;
}
