import type { Lane } from './suite.mjs';
import type { TestFile } from './suite-plan.mjs';

interface Job {
  config: string;
  projects?: readonly string[];
  files?: readonly (TestFile & { only?: string })[];
  isRecording?: boolean;
}

export function endAllGroups(): void;
export function runFiles(options: {
  lane: Lane;
  job: Job;
  env: Record<string, string>;
  limitOf: (message: object) => number | undefined;
  onMessage: (message: object) => unknown;
}): Promise<{ ended: unknown; output: string }>;
