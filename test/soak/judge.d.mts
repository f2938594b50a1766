/** What was found of a figure, what was allowed, and whether that is too much. */
export interface Ruling {
  readonly title: string;
  readonly found: number;
  readonly allowed: number;
  /** Whether less than `allowed` is too little; else more is too much. */
  readonly isLeast?: boolean;
  readonly isBroken: boolean;
}

export declare function lineOf(ruling: Ruling): string;
export declare function growth(points: readonly (readonly [x: number, y: number])[]): number;
export declare function leastGrowth(points: readonly (readonly number[])[]): number;
export declare function judge(rests: readonly Readonly<Record<string, number>>[]): Ruling[];
