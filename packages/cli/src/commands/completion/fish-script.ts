import type { CompletedCommand, CompletedFlag, CompletedValue } from './completed-command.js';
import { quoted, stepTo } from './shell-tables.js';

/** The script that completes `mtl`, `gpt-train` and `bert-train` in fish. */
export function fishScript(commands: readonly CompletedCommand[]): string {
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
${commands.flatMap(linesOf).join('\n')}
complete -c gpt-train -w 'mtl train gpt'
complete -c bert-train -w 'mtl train bert'
`;
}

function linesOf({ path, commands, flags, operands }: CompletedCommand): readonly string[] {
  const here = `complete -c mtl -n ${quoted(`__mtl_at ${quoted(path)}`)}`;
  // fish takes everything behind -- for an operand
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

/** Completes the second and further values of a flag, which fish takes for operands. */
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
