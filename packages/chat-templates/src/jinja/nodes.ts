import type { Value } from './values.js';

/** An expression of a template. */
export type Expression =
  | { readonly kind: 'constant'; readonly value: Value }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'tuple' | 'list'; readonly items: readonly Expression[] }
  | { readonly kind: 'dict'; readonly entries: readonly (readonly [Expression, Expression])[] }
  | { readonly kind: 'attribute'; readonly of: Expression; readonly name: string }
  | { readonly kind: 'item'; readonly of: Expression; readonly at: Expression }
  | { readonly kind: 'slice'; readonly of: Expression; readonly bounds: readonly (Expression | undefined)[] }
  | { readonly kind: 'call'; readonly of: Expression; readonly args: Arguments }
  | FilterNode
  | { readonly kind: 'test'; readonly of: Expression; readonly name: string; readonly args: Arguments }
  | { readonly kind: 'not' | 'negative' | 'positive'; readonly of: Expression }
  | { readonly kind: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | {
      readonly kind: 'operation';
      readonly operator: ArithmeticOperator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: 'concatenation'; readonly parts: readonly Expression[] }
  | {
      readonly kind: 'comparison';
      readonly first: Expression;
      readonly others: readonly { readonly operator: ComparisonOperator; readonly operand: Expression }[];
    }
  | {
      readonly kind: 'choice';
      readonly condition: Expression;
      readonly then: Expression;
      readonly otherwise: Expression | undefined;
    };

export type ArithmeticOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**';
export type ComparisonOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

export interface FilterNode {
  readonly kind: 'filter';
  /** The expression that is filtered; undefined if the filter applies to the text of a block. */
  readonly of: Expression | undefined;
  readonly name: string;
  readonly args: Arguments;
}

/** Arguments of a call: `(1, a=2, *more, **others)`. */
export interface Arguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [string, Expression])[];
  readonly list?: Expression | undefined;
  readonly dict?: Expression | undefined;
}

/** The target of an assignment: a name, several names, or an attribute of a namespace. */
export type Target =
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'tuple'; readonly items: readonly Target[] }
  | { readonly kind: 'namespace'; readonly name: string; readonly attribute: string };

/** The parameters and the body of a macro or call block. */
export interface Routine {
  readonly parameters: readonly { readonly name: string; readonly fallback: Expression | undefined }[];
  readonly body: readonly Statement[];
  /** The names among `caller`, `varargs` and `kwargs` that the body reads. */
  readonly reads: ReadonlySet<string>;
}

type StatementKind =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly value: Expression }
  | ForNode
  | {
      readonly kind: 'if';
      readonly branches: readonly { readonly condition: Expression; readonly body: readonly Statement[] }[];
      readonly otherwise: readonly Statement[];
    }
  | { readonly kind: 'set'; readonly target: Target; readonly value: Expression }
  | {
      readonly kind: 'setBlock';
      readonly target: Target;
      readonly filter: FilterNode | undefined;
      readonly body: readonly Statement[];
    }
  | {
      readonly kind: 'with';
      readonly assignments: readonly { readonly target: Target; readonly value: Expression }[];
      readonly body: readonly Statement[];
    }
  | { readonly kind: 'macro'; readonly name: string; readonly routine: Routine }
  | { readonly kind: 'call'; readonly call: Extract<Expression, { kind: 'call' }>; readonly routine: Routine }
  | { readonly kind: 'filterBlock'; readonly filter: FilterNode; readonly body: readonly Statement[] }
  /** A block `{% generation %}`, which contains text of the assistant. */
  | { readonly kind: 'generation'; readonly body: readonly Statement[] }
  | { readonly kind: 'break' | 'continue' };

export interface ForNode {
  readonly kind: 'for';
  readonly target: Target;
  readonly over: Expression;
  readonly filter: Expression | undefined;
  readonly isRecursive: boolean;
  readonly body: readonly Statement[];
  readonly otherwise: readonly Statement[];
}

export type Statement = StatementKind & { readonly line: number };
