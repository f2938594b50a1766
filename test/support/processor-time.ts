/** Measures processor time, for tests of the project `measured`. */
import process from 'node:process';

/** Processor time that this process spends on some work, in milliseconds. */
export async function processorMilliseconds(work: () => unknown): Promise<number> {
  const begin = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(begin);
  return (user + system) / 1000;
}
