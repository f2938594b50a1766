/** Choosing a part of a tensor: numpy's notation, and for more than two axes which two are shown. */

import { useEffect, useState } from 'preact/hooks';
import { type Axis, formatSelection, remainingAxes, wholeAxis } from '../selection.js';

/** The field, and a choice for every axis of a tensor that has more than two. */
export function SelectionField({
  text,
  axes,
  shape,
  choose,
}: {
  text: string;
  axes: readonly Axis[];
  shape: readonly number[];
  choose: (text: string) => void;
}) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  if (shape.length === 0) return null;
  const kept = remainingAxes(axes);
  const change = (at: number, axis: Axis) => choose(formatSelection(axes.with(at, axis), shape));
  /** Shows an axis in place of another. */
  const show = (position: number, at: number) => {
    const before = kept[position];
    if (before === undefined || before === at) return;
    const fixed: Axis = { start: 0, step: 1, count: 1, kept: false };
    choose(
      formatSelection(axes.with(before, fixed).with(at, wholeAxis(shape[at] as number)), shape),
    );
  };
  return (
    <form
      class="row selection"
      onSubmit={(event) => {
        event.preventDefault();
        choose(typed);
      }}
    >
      <label class="row">
        Slice
        <input
          type="text"
          class="mono"
          spellcheck={false}
          placeholder={shape.map(() => ':').join(', ')}
          value={typed}
          onInput={({ currentTarget }) => setTyped(currentTarget.value)}
        />
      </label>
      <button type="submit">Show</button>
      {shape.length > 2 &&
        kept.map((axis, position) => (
          <label key={axis} class="row">
            {position === 0 ? 'Rows' : 'Columns'}
            <select
              value={axis}
              onChange={({ currentTarget }) => show(position, Number(currentTarget.value))}
            >
              {shape.map((size, at) => (
                <option key={at} value={at} disabled={at !== axis && kept.includes(at)}>
                  axis {at} ({size})
                </option>
              ))}
            </select>
          </label>
        ))}
      {shape.length > 2 &&
        axes.map(
          ({ start, kept: isKept }, at) =>
            !isKept && (
              <label key={at} class="row">
                Axis {at}
                <input
                  type="number"
                  min={0}
                  max={(shape[at] as number) - 1}
                  value={start}
                  onInput={({ currentTarget: { value, max } }) => {
                    const index = Number(value);
                    if (value === '' || !(index >= 0 && index <= Number(max))) return;
                    change(at, { start: Math.floor(index), step: 1, count: 1, kept: false });
                  }}
                />
              </label>
            ),
        )}
    </form>
  );
}
