export function withPrelude(text: string): string;
