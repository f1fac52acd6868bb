(() => {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpack = async (element) => {
    const stream = new Blob([bytes(element.textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  const make = (name, text, kind) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  };
  const fold = (title, ...parts) => {
    const element = make("details");
    element.append(make("summary", title), ...parts);
    return element;
  };
  const code = (text) => { const block = make("pre"); block.append(make("code", text)); return block; };
  const result = (title, found) => {
    const part = make("div", undefined, "answer");
    part.append(make("h4", title));
    if (!found) { part.append(make("p", "not executed", "quiet")); return part; }
    if (found.error) { part.append(make("p", found.error)); return part; }
    const frame = make("div", undefined, "scroll");
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", title);
    const table = make("table"), head = make("tr"), body = make("tbody"), top = make("thead");
    found.columns.forEach((name) => { const cell = make("th", name); cell.scope = "col"; head.append(cell); });
    found.rows.forEach((row, place) => {
      const line = make("tr", undefined, place < found.only_here ? "only" : "");
      row.forEach((value) => line.append(value === null ? make("td", "NULL", "quiet") : make("td", String(value))));
      body.append(line);
    });
    top.append(head);
    table.append(top, body);
    frame.append(table);
    const rows = found.rows.length < found.row_count ? `${found.rows.length} of ${found.row_count} rows` : found.row_count === 1 ? "1 row" : `${found.row_count} rows`;
    const marked = found.only_here === found.rows.length ? "only here" : `the first ${found.only_here}, marked, only here`;
    part.append(frame, make("p", found.only_here ? `${rows}; ${marked}` : rows, "quiet"));
    return part;
  };
  let sections;
  const show = async (holder) => {
    const question = await unpack(holder.querySelector("script"));
    sections ??= await unpack(document.getElementById("sections"));
    const results = make("div", undefined, "answers");
    results.append(result("result", question.predicted_result), result("result of the gold", question.gold_result));
    holder.append(results);
    if (question.results_remark) holder.append(make("p", question.results_remark));
    if (question.not_executed) holder.append(make("p", question.not_executed, "quiet"));
    const inWords = (each) => each.correct === null ? "not judged" : each.correct ? "right" : each.error ? `wrong: ${each.error}` : "wrong";
    const candidates = new Map(question.candidates.map((each) => [each.stage, each]));
    question.candidates.filter((each) => !/^turn_\d+$/.test(each.stage)).forEach((each) => {
      holder.append(fold(`${each.stage.replaceAll("_", " ")}: ${inWords(each)}`, code(each.sql ?? "no SQL")));
    });
    const turns = new Map();
    question.stages.forEach((stage) => {
      const label = /^turn(?: \d+)?(?: \(candidate (\d+)\))?$/.exec(stage.stage);
      if (!label || !stage.value) return;
      const own = label[1] ?? "1", place = (turns.get(own) ?? 0) + 1;
      turns.set(own, place);
      const turn = stage.value, judged = own === "1" && candidates.get(`turn_${place}`);
      const verdict = turn.sql === null ? "no SQL yet" : judged ? inWords(judged) : "not judged";
      const parts = turn.calls.flatMap((call) => [
        make("h4", call.error ? `${call.name}: ${call.error.replaceAll("_", " ")}` : call.name),
        code(call.sql ?? call.arguments),
        ...(call.result ? [code(call.result)] : []),
      ]);
      const known = turn.calls.some((call) => call.sql === turn.sql);
      const after = turn.sql === null || known ? [] : [make("h4", "SQL after this turn"), code(turn.sql)];
      holder.append(fold(`${stage.stage}: ${verdict}${turn.submitted ? ", submitted" : ""}`, make("p", turn.text), ...parts, ...after));
    });
    question.stages.forEach((stage) => stage.calls.forEach((call, place) => {
      const parts = (call.messages ?? []).flatMap((message) => [make("h4", message.role), code(message.content.map((part) => sections[part] ?? part).join(""))]);
      const reply = call.reply === null ? [] : [make("h4", "reply"), code(call.reply)];
      const spent = `${call.input_tokens ?? "unknown"} tokens in, ${call.output_tokens ?? "unknown"} out${call.cached ? ", from the cache" : ""}`;
      const name = stage.stage.replaceAll("_", " ") + (stage.calls.length > 1 ? ` ${place + 1}` : "");
      holder.append(fold(`prompt and reply of ${name} (${spent})`, ...(parts.length ? parts : [make("p", "not stored", "quiet")]), ...reply));
    }));
    question.notes.forEach((note) => holder.append(make("p", note, "quiet")));
  };
  const holders = document.querySelectorAll("details.more");
  holders.forEach((holder) => holder.addEventListener("toggle", () => {
    if (holder.open && !holder.dataset.shown) {
      holder.dataset.shown = "yes";
      show(holder).catch((error) => holder.append(make("p", `This browser cannot show it: ${error}`)));
    }
  }));
  if (holders.length === 1) holders[0].open = true;
})();
