import type { ModelKind } from '@mtl/configuration';
import { type FlagOfProgram, flagsOfProgram } from '@mtl/configuration/flags';
import { ConfigurationError } from '@mtl/errors';
import { Argument, type Command, type Option } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { suggestedValues } from '../command-line/option-values.js';
import { summaries } from './summaries.js';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } satisfies Record<
  string,
  (commands: readonly CompletedCommand[]) => string
>;

const notes = `
The script completes commands, flags, names that flags take as values, and files, for mtl, gpt-train and bert-train.

  bash  source <(mtl completion bash)   (in ~/.bashrc)
  zsh   source <(mtl completion zsh)    (in ~/.zshrc, after compinit)
  fish  mtl completion fish > ~/.config/fish/completions/mtl.fish`;

/**
 * Creates the command `mtl completion`, which prints a script that completes command lines of `mtl` in a
 * shell.
 */
export function completionCommand(): Command {
  const command = newCommand('completion', summaries.completion);
  return command
    .addArgument(new Argument('<shell>', 'The shell.').choices(Object.keys(scripts)).argParser(shellNamed))
    .addHelpText('after', notes)
    .action((shell: keyof typeof scripts) => {
      process.stdout.write(scripts[shell](completedCommands(command.parent!)));
    });
}

/** @throws ConfigurationError MTL_FLAG_VALUE */
function shellNamed(name: string): keyof typeof scripts {
  if (Object.hasOwn(scripts, name)) return name as keyof typeof scripts;
  throw new ConfigurationError(
    'MTL_FLAG_VALUE',
    `mtl completion ${name}: not a shell that it has a script for`,
    {
      expected: Object.keys(scripts).join(', '),
      remedy:
        'pass the shell that you type commands in (echo $SHELL); others complete nothing, and mtl --help lists the commands',
      details: { shell: name },
    },
  );
}

/** Returns the script that completes `mtl`, `gpt-train` and `bert-train` in bash. */
function bashScript(commands: readonly CompletedCommand[]): string {
  return `# Completes mtl, gpt-train and bert-train in bash: source <(mtl completion bash)
${shellTables(commands)}_mtl_words() {
${readWords}}
_mtl() {
  local program="\${COMP_WORDS[0]}" current="\${COMP_WORDS[COMP_CWORD]}" reply_words reply_files
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
  # bash takes = for a word
  if [[ $current == '=' ]]; then current=''; fi
  _mtl_words
  COMPREPLY=($(compgen -W "$reply_words" -- "$current"))
  if [[ $reply_files == 1 ]]; then
    local file
    while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null || true
  fi
}
complete -F _mtl mtl gpt-train bert-train
`;
}

/**
 * Returns the script that completes `mtl`, `gpt-train` and `bert-train` in zsh. Users source the script, or
 * store it as `_mtl` in the `fpath`.
 */
function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef mtl gpt-train bert-train
# Completes mtl, gpt-train and bert-train in zsh: source <(mtl completion zsh), after compinit
${shellTables(commands)}_mtl_words() {
${readWords}}
_mtl() {
  local program="\${words[1]}" current="\${words[CURRENT]}" reply_words reply_files
  local -a before=("\${(@)words[2,CURRENT-1]}")
  if [[ $current == --*=* ]]; then
    before+=("\${current%%=*}")
    compset -P '*='
    current="\${current#*=}"
  fi
  _mtl_words
  local -a candidates=(\${=reply_words})
  (( \${#candidates} )) && compadd -- $candidates
  if [[ $reply_files == 1 ]]; then _files; fi
  return 0
}
if [[ \${funcstack[1]} == _mtl ]]; then
  _mtl "$@"
else
  compdef _mtl mtl gpt-train bert-train
fi
`;
}

/** Returns the script that completes `mtl`, `gpt-train` and `bert-train` in fish. */
function fishScript(commands: readonly CompletedCommand[]): string {
  const steps = commands.filter(({ path }) => path !== '').map(({ path }) => quoted(stepTo(path)));
  return `# Completes mtl, gpt-train and bert-train in fish: mtl completion fish | source
function __mtl_path
    set -l path ''
    for word in (commandline -opc)[2..]
        switch "$path/$word"
            case ${steps.join(' ')}
                set path (string trim "$path $word")
        end
    end
    echo $path
end
function __mtl_at
    test (__mtl_path) = "$argv[1]"
end
function __mtl_behind
    __mtl_at "$argv[1]"; and test (commandline -opc)[-1] = "$argv[2]"
end
function __mtl_more
    set -l flags (string match -- '-*' (commandline -opc))
    __mtl_at "$argv[1]"; and test -n "$flags"; and test "$flags[-1]" = "$argv[2]"
end
complete -c mtl -f
${commands.flatMap(writeLines).join('\n')}
complete -c gpt-train -w 'mtl train gpt'
complete -c bert-train -w 'mtl train bert'
`;
}

function writeLines({ path, commands, flags, operands }: CompletedCommand): readonly string[] {
  const here = `complete -c mtl -n ${quoted(`__mtl_at ${quoted(path)}`)}`;
  // fish treats all words after -- as operands, so flags after -- need operand completion
  const isBehindDashes = path.endsWith('--');
  return [
    ...commands.map(([name, text]) => `${here} -a ${name} -d ${quoted(text)}`),
    ...flags.flatMap((flag) => (isBehindDashes ? operandLines(path, flag) : [flagLine(here, flag)])),
    ...flags.flatMap((flag) => (isBehindDashes ? [] : furtherValues(path, flag))),
    ...(operands === undefined ? [] : [`${here} ${valueWords(operands)}`]),
  ];
}

function flagLine(here: string, { words, text, value }: CompletedFlag): string {
  const names = words.map((word) => (word.startsWith('--') ? `-l ${word.slice(2)}` : `-s ${word.slice(1)}`));
  const taken = value === undefined ? '' : ` -r ${valueWords(value)}`;
  return `${here} ${names.join(' ')} -d ${quoted(text)}${taken}`;
}

/** Completes the second and later values of a flag, which fish treats as operands. */
function furtherValues(path: string, { words, value }: CompletedFlag): readonly string[] {
  if (value?.isVariadic !== true) return [];
  return [`complete -c mtl -n ${quoted(`__mtl_more ${quoted(path)} ${words[0]}`)} ${valueWords(value)}`];
}

function operandLines(path: string, { words, text, value }: CompletedFlag): readonly string[] {
  const [word] = words;
  const where = value?.isVariadic === true ? '__mtl_more' : '__mtl_behind';
  const condition = quoted(`${where} ${quoted(path)} ${word}`);
  return [
    `complete -c mtl -n ${quoted(`__mtl_at ${quoted(path)}`)} -a ${quoted(word!)} -d ${quoted(text)}`,
    ...(value === undefined ? [] : [`complete -c mtl -n ${condition} ${valueWords(value)}`]),
  ];
}

function valueWords({ names, takesFiles }: CompletedValue): string {
  const files = takesFiles ? '-F' : '-f';
  return names.length === 0 ? files : `${files} -a ${quoted(names.join(' '))}`;
}

/** Quotes `text` for POSIX shells and fish. */
const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", `'\\''`)}'`;

/**
 * Returns the completion tables for bash and zsh: shell functions that both shells can run, and that set
 * variables.
 *
 * `_mtl_enter PATH WORD` succeeds if WORD is a subcommand of the command at PATH; `_mtl_command PATH` sets
 * subcommands, flags and the kind of an operand; `_mtl_value PATH FLAG` sets the kind of a flag's value, and
 * fails for a switch.
 */
function shellTables(all: readonly CompletedCommand[]): string {
  const steps = all.filter(({ path }) => path !== '').map(({ path }) => quoted(stepTo(path)));
  const commands = all.map(({ path, commands, flags, operands }) => {
    const names = commands.map(([name]) => name).join(' ');
    const words = flags.flatMap(({ words }) => words).join(' ');
    return `    ${quoted(path)}) subcommands=${quoted(names)} flags=${quoted(words)} ${formatSettings(operands)} ;;`;
  });
  const values = all.flatMap(({ path, flags }) =>
    flags.flatMap(({ words, value }) =>
      value === undefined
        ? []
        : [`    ${words.map((word) => quoted(`${path} ${word}`)).join('|')}) ${formatSettings(value)} ;;`],
    ),
  );
  return `_mtl_enter() {
  case "$1/$2" in
    ${steps.join('|')}) return 0 ;;
  esac
  return 1
}
_mtl_command() {
  case "$1" in
${commands.join('\n')}
  esac
}
_mtl_value() {
  case "$1 $2" in
${values.join('\n')}
    *) return 1 ;;
  esac
}
`;
}

/** Returns the path of a command, with a slash before the last word: `data/prepare` for `data prepare`. */
function stepTo(path: string): string {
  const at = path.lastIndexOf(' ');
  return `${path.slice(0, Math.max(0, at))}/${path.slice(at + 1)}`;
}

function formatSettings(value: CompletedValue | undefined): string {
  const { names = [], takesFiles = false, isVariadic = false } = value ?? {};
  return `names=${quoted(names.join(' '))} files=${takesFiles ? 1 : 0} many=${isVariadic ? 1 : 0}`;
}

/**
 * The body of the completion function for bash and zsh. Its inputs are the variables `before` (the words
 * between `program` and `current`) and `current`, the word at the cursor. It sets `reply_words` and
 * `reply_files` to the possible completions.
 */
const readWords = `  local command='' flag='' seen=0 word subcommands='' flags='' names='' files=0 many=0
  case "\${program##*/}" in
    gpt-train) command='train gpt' ;;
    bert-train) command='train bert' ;;
  esac
  for word in "\${before[@]}"; do
    if [[ $word == '=' ]]; then continue; fi
    if [[ $word == -?* && $word != -- ]]; then
      flag="\${word%%=*}" seen=0
      if [[ $word == *=* ]]; then seen=1; fi
    elif [[ -n $flag ]] && _mtl_value "$command" "$flag" && [[ $seen == 0 || ( $many == 1 && $word != -- ) ]]; then
      seen=1
    elif _mtl_enter "$command" "$word"; then
      command="\${command:+$command }$word" flag=''
    else
      flag=''
    fi
  done
  reply_words='' reply_files=0
  if [[ -n $flag ]] && _mtl_value "$command" "$flag" && [[ $seen == 0 || $many == 1 ]] && [[ $current != -* ]]; then
    reply_words="$names" reply_files="$files"
    return
  fi
  _mtl_command "$command"
  if [[ $current == -* ]]; then
    reply_words="$flags"
  else
    reply_words="$subcommands $names" reply_files="$files"
  fi
`;

/** How a value is completed: by names, by files, or not at all. */
interface CompletedValue {
  readonly names: readonly string[];
  readonly takesFiles: boolean;
  /** True if the flag or operand takes several values. */
  readonly isVariadic: boolean;
}

interface CompletedFlag {
  /** The spellings of the flag, such as `--help` and `-h`. */
  readonly words: readonly string[];
  readonly text: string;
  /** The completion of the flag's value; undefined for a switch. */
  readonly value: CompletedValue | undefined;
}

/** A command, or the command line after `--`. */
interface CompletedCommand {
  /**
   * The words of the command after `mtl`, such as `data prepare`; `plan --` stands for the words after the
   * `--` of `mtl plan`.
   */
  readonly path: string;
  /** The command's subcommands, with their descriptions. */
  readonly commands: ReadonlyArray<readonly [name: string, text: string]>;
  readonly flags: readonly CompletedFlag[];
  /** How operands are completed; undefined if the command takes no operands. */
  readonly operands: CompletedValue | undefined;
}

/**
 * Commands that take the flags of a training program, each with the kind of model that the program trains.
 */
const trainingPrograms: Readonly<Record<string, ModelKind>> = {
  'train gpt': 'gpt',
  'train bert': 'bert',
  sft: 'gpt',
  'data build-index': 'gpt',
  'plan --': 'gpt',
};

/**
 * The flags that a command processes itself, by command. The command passes all other flags to the training
 * program.
 */
const flagsBefore: Readonly<Record<string, readonly FlagOfProgram[]>> = {
  sft: [{ name: 'model', text: 'The model to fine-tune.', placeholder: 'DIR', names: [] }],
  'data build-index': [
    {
      name: 'model',
      text: 'The model that the data are for.',
      placeholder: 'NAME',
      names: ['gpt', 'bert'],
    },
  ],
};

/** Returns what shells complete for a program and all of its commands. */
function completedCommands(program: Command): readonly CompletedCommand[] {
  return [...described(program, ''), completeTrainingFlags('plan --')];
}

function described(command: Command, path: string): readonly CompletedCommand[] {
  const commands = command.commands.map((each) => [each.name(), each.description()] as const);
  const isTraining = Object.hasOwn(trainingPrograms, path);
  const [operand] = command.registeredArguments;
  const hasOperands = operand !== undefined && operand.name() !== 'flags';
  const own: CompletedCommand = isTraining
    ? completeTrainingFlags(path)
    : {
        path,
        commands,
        flags: [...command.options.filter(({ hidden }) => !hidden).map(completeFlag), help],
        operands: hasOperands ? completeOperand(operand) : undefined,
      };
  const others = command.commands.flatMap((each) => described(each, `${path} ${each.name()}`.trimStart()));
  return [own, ...others];
}

const help: CompletedFlag = { words: ['--help', '-h'], text: 'Shows this help.', value: undefined };

function completeFlag(option: Option): CompletedFlag {
  const words = [option.long, option.short].filter((word) => word != null);
  const placeholder = /<(.+)>/.exec(option.flags)?.[1];
  return {
    words,
    text: option.description,
    value:
      placeholder === undefined
        ? undefined
        : completedValue(placeholder, { names: suggestedValues(option), isVariadic: option.variadic }),
  };
}

function completeOperand(argument: Argument): CompletedValue {
  const names = argument.argChoices ?? [];
  // operands without choices are datasets, runs, programs and directories, which are all files
  return { names, takesFiles: names.length === 0, isVariadic: argument.variadic };
}

function completeTrainingFlags(path: string): CompletedCommand {
  const flags = [...(flagsBefore[path] ?? []), ...flagsOfProgram(trainingPrograms[path]!)];
  return {
    path,
    commands: [],
    flags: flags.map(({ name, text, placeholder, names }) => ({
      words: [`--${name}`],
      text,
      value:
        placeholder === ''
          ? undefined
          : completedValue(placeholder, { names, isVariadic: placeholder.includes('...') }),
    })),
    operands: undefined,
  };
}

/** Matches a placeholder whose value is a file's path or begins with one. */
const ofFiles = /file|dir|path|prefix|trace|profile|schedule/i;

function completedValue(
  placeholder: string,
  { names, isVariadic }: Pick<CompletedValue, 'names' | 'isVariadic'>,
): CompletedValue {
  return { names, takesFiles: ofFiles.test(placeholder), isVariadic };
}
