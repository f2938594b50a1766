export const ROOT: string;
export function rooms(): string[];
export function sourcesOf(room: string): string[];
export function testsOf(room: string): string[];
