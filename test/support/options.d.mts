/** An option as `parseArgs` has it, or one whose text is a number. */
export interface Option {
  readonly type: 'string' | 'boolean';
  readonly default?: string | boolean;
  readonly number?: 'whole' | 'any';
  readonly least?: number;
}

/** What the option comes to; undefined when it is not given and has no default. */
type Value<One extends Option> =
  | (One extends { number: string } ? number : One extends { type: 'boolean' } ? boolean : string)
  | (One extends { default: unknown } ? never : undefined);

export declare function refuse(program: string, text: string): never;
export declare function readOptions<const Options extends Readonly<Record<string, Option>>>(
  program: string,
  usage: string,
  options: Options,
): { values: { [Name in keyof Options]: Value<Options[Name]> }; positionals: string[] };
