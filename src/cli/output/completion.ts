/** Scripts by which shells complete commands and options. */

/** A command, as a shell completes it. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly CompletedOption[];
}

/** An option with its hyphens left out. */
export interface CompletedOption {
  readonly name: string;
  readonly short?: string | undefined;
  readonly takesValue: boolean;
  readonly help: string;
}

const flagsOf = ({ name, short }: CompletedOption): string[] => [
  `--${name}`,
  ...(short === undefined ? [] : [`-${short}`]),
];

/** A text between apostrophes, for shells that end them at the next one. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The script for bash. Arguments that are no options are completed as files. */
export function bashCompletion(
  programs: readonly string[],
  commands: readonly CompletedCommand[],
): string {
  const cases = commands.map(
    ({ name, options }) => `    ${name}) words="${options.flatMap(flagsOf).join(' ')}" ;;`,
  );
  return `_safetensors_mmap() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(' ')} --help --version" -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
  esac
}
complete -o default -F _safetensors_mmap ${programs.join(' ')}
`;
}

/** The script for zsh, with the help of each option. */
export function zshCompletion(
  programs: readonly string[],
  commands: readonly CompletedCommand[],
): string {
  const described = commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, options }) => {
    const specs = options.flatMap((option) =>
      flagsOf(option).map((flag) => {
        const help = option.help.replaceAll(/[[\]:\\]/g, '\\$&');
        return quoted(`${flag}[${help}]${option.takesValue ? ':value:_files' : ''}`);
      }),
    );
    return `    ${name}) _arguments ${[...specs, quoted('*:file:_files')].join(' ')} ;;`;
  });
  return `#compdef ${programs.join(' ')}
_safetensors_mmap() {
  local -a commands
  commands=(
${described.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
${cases.join('\n')}
  esac
}
compdef _safetensors_mmap ${programs.join(' ')}
`;
}

/** The script for fish, with the help of each option. */
export function fishCompletion(
  programs: readonly string[],
  commands: readonly CompletedCommand[],
): string {
  const fishQuoted = (text: string): string => `'${text.replaceAll(/['\\]/g, '\\$&')}'`;
  const lines = programs.flatMap((program) =>
    commands.flatMap(({ name, summary, options }) => [
      `complete -c ${program} -n __fish_use_subcommand -f -a ${name} -d ${fishQuoted(summary)}`,
      ...options.map((option) => {
        const short = option.short === undefined ? '' : ` -s ${option.short}`;
        const value = option.takesValue ? ' -r' : '';
        const condition = fishQuoted(`__fish_seen_subcommand_from ${name}`);
        return `complete -c ${program} -n ${condition} -l ${option.name}${short}${value} -d ${fishQuoted(option.help)}`;
      }),
    ]),
  );
  return `${lines.join('\n')}\n`;
}
