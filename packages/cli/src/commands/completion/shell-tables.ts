import type { CompletedCommand, CompletedValue } from './completed-command.js';

/** As a POSIX shell and fish take it. */
export const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", `'\\''`)}'`;

/**
 * The tables of a script for bash or zsh, as functions that set variables. Both shells read them alike.
 *
 * `_mtl_enter PATH WORD` returns whether WORD leads from PATH to another command; `_mtl_command PATH` sets
 * subcommands, flags and what an operand is; `_mtl_value PATH FLAG` sets what the value of a flag is, and
 * fails for a switch.
 */
export function shellTables(all: readonly CompletedCommand[]): string {
  const steps = all.filter(({ path }) => path !== '').map(({ path }) => quoted(stepTo(path)));
  const commands = all.map(({ path, commands, flags, operands }) => {
    const names = commands.map(([name]) => name).join(' ');
    const words = flags.flatMap(({ words }) => words).join(' ');
    return `    ${quoted(path)}) subcommands=${quoted(names)} flags=${quoted(words)} ${settingsOf(operands)} ;;`;
  });
  const values = all.flatMap(({ path, flags }) =>
    flags.flatMap(({ words, value }) =>
      value === undefined
        ? []
        : [`    ${words.map((word) => quoted(`${path} ${word}`)).join('|')}) ${settingsOf(value)} ;;`],
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

/** `data prepare` as `data/prepare`. */
export function stepTo(path: string): string {
  const at = path.lastIndexOf(' ');
  return `${path.slice(0, Math.max(0, at))}/${path.slice(at + 1)}`;
}

function settingsOf(value: CompletedValue | undefined): string {
  const { names = [], takesFiles = false, isVariadic = false } = value ?? {};
  return `names=${quoted(names.join(' '))} files=${takesFiles ? 1 : 0} many=${isVariadic ? 1 : 0}`;
}

/**
 * The body of the completing function for bash and zsh: reads `before`, the words between `program` and
 * `current`, the one at the cursor; then sets `reply_words` and `reply_files` to what that may be.
 */
export const readWords = `  local command='' flag='' seen=0 word subcommands='' flags='' names='' files=0 many=0
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
