/** Scripts by which shells complete commands and options. */

/** A command, as a shell completes it. */
export interface CompletedCommand {
  readonly name: string;
  readonly summary: string;
  /** The words of which the first argument is one; empty where it is anything else. */
  readonly actions: readonly string[];
  readonly options: readonly CompletedOption[];
}

/** An option with its hyphens left out. */
interface CompletedOption {
  readonly name: string;
  readonly short?: string | undefined;
  readonly takesValue: boolean;
  /** All values that it takes; empty where these are many. */
  readonly choices: readonly string[];
  readonly help: string;
}

const flagsOf = ({ name, short }: CompletedOption): string[] => [
  `--${name}`,
  ...(short === undefined ? [] : [`-${short}`]),
];

/** A text between apostrophes, for shells that end them at the next one. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** The script for bash. Arguments that are no options, actions or choices are completed as files. */
export function bashCompletion(
  programs: readonly string[],
  commands: readonly CompletedCommand[],
): string {
  const cases = commands.map(
    ({ name, actions, options }) =>
      `    ${name}) words="${options.flatMap(flagsOf).join(' ')}" actions="${actions.join(' ')}" ;;`,
  );
  const values = commands.flatMap(({ name, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map((option) => `    ${name}\\ --${option.name}) values="${option.choices.join(' ')}" ;;`),
  );
  return `_safetensors_mmap() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words="" actions="" values=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(' ')} --help --version" -- "$word"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${cases.join('\n')}
  esac
  case "\${COMP_WORDS[1]} \${COMP_WORDS[COMP_CWORD - 1]}" in
${values.join('\n')}
  esac
  if [ -n "$values" ]; then words="$values"
  elif [ "$COMP_CWORD" -eq 2 ] && [ -n "$actions" ]; then words="$actions $words"
  else
    case "$word" in
      -*) ;;
      *) return ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _safetensors_mmap ${programs.join(' ')}
`;
}

/** What zsh completes as the value of an option. */
function zshValue({ takesValue, choices }: CompletedOption): string {
  if (!takesValue) return '';
  return choices.length === 0 ? ':value:_files' : `:value:(${choices.join(' ')})`;
}

/** The script for zsh, with the help of each option. */
export function zshCompletion(
  programs: readonly string[],
  commands: readonly CompletedCommand[],
): string {
  const described = commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`);
  const cases = commands.map(({ name, actions, options }) => {
    const specs = options.flatMap((option) =>
      flagsOf(option).map((flag) => {
        const help = option.help.replaceAll(/[[\]:\\]/g, '\\$&');
        return quoted(`${flag}[${help}]${zshValue(option)}`);
      }),
    );
    const first = actions.length === 0 ? [] : [quoted(`1:action:(${actions.join(' ')})`)];
    return `    ${name}) _arguments ${[...specs, ...first, quoted('*:file:_files')].join(' ')} ;;`;
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
    commands.flatMap(({ name, summary, actions, options }) => {
      const seen = `__fish_seen_subcommand_from ${name}`;
      const isFirst = fishQuoted(
        `${seen}; and not __fish_seen_subcommand_from ${actions.join(' ')}`,
      );
      return [
        `complete -c ${program} -n __fish_use_subcommand -f -a ${name} -d ${fishQuoted(summary)}`,
        ...(actions.length === 0
          ? []
          : [`complete -c ${program} -n ${isFirst} -f -a ${fishQuoted(actions.join(' '))}`]),
        ...options.map((option) => {
          const short = option.short === undefined ? '' : ` -s ${option.short}`;
          const choices =
            option.choices.length === 0 ? '' : ` -f -a ${fishQuoted(option.choices.join(' '))}`;
          const value = option.takesValue ? ` -r${choices}` : '';
          return `complete -c ${program} -n ${fishQuoted(seen)} -l ${option.name}${short}${value} -d ${fishQuoted(option.help)}`;
        }),
      ];
    }),
  );
  return `${lines.join('\n')}\n`;
}
