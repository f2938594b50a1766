/** What was found of a figure, what was allowed, and whether that is too much. */
export interface Ruling {
  readonly title: string;
  readonly found: number;
  readonly allowed: number;
  readonly isBroken: boolean;
}

export declare function growth(points: readonly (readonly [x: number, y: number])[]): number;
export declare function leastGrowth(points: readonly (readonly number[])[]): number;
export declare function judge(rests: readonly Readonly<Record<string, number>>[]): Ruling[];
