export const ROOT: string;
export function directories(): string[];
export function sourcesOf(directory: string): string[];
export function testsOf(directory: string): string[];
