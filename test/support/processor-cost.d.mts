/** Milliseconds of processor time and by the clock, and the pages of memory that were touched for the first time. */
export interface Cost {
  readonly milliseconds: number;
  readonly wallMilliseconds: number;
  readonly pages: number;
}

export function measured<T>(work: () => T): Cost & { readonly result: T };
export function measuredAsync<T>(work: () => T): Promise<Cost & { readonly result: Awaited<T> }>;
export function withoutSlowPages(cost: Pick<Cost, 'milliseconds' | 'pages'>): number;
export function referenceMilliseconds(cost: Pick<Cost, 'milliseconds' | 'pages'>): number;
