------------------------------ MODULE Publish ------------------------------
(* A log that follows the files (RFC 22): snapshots are committed first, and publishers append the difference. This is
   also how a statement that replaces files reaches a log. Each action is one request. A publisher may stop between two
   actions for as long as it likes, or for ever.

   Snapshot v has the value v. The changes from u to v are two records that add up to v - u, one in each bucket, so an
   attempt may end half-written. *)
EXTENDS Naturals, Integers, Sequences, FiniteSets

CONSTANTS Publishers, Versions, Attempts, Records, Bug

VARIABLES version,  \* the newest snapshot
          links,    \* sequence of [attempt, from, to]: link n is created if absent
          log,      \* sequence of [attempt, ref, value]: ref = 0 for a row, else the row that it corrects
          next,     \* the next attempt
          publisher,\* publisher -> [pc, link, seen, attempt, to, part]
          clean     \* a publisher has ended its run, and nothing has been appended or committed since
vars == <<version, links, log, next, publisher, clean>>

Idle == [pc |-> "idle", link |-> 0, seen |-> <<>>, attempt |-> 0, to |-> 0, part |-> 0]
Init == /\ version = 0 /\ links = <<>> /\ log = <<>> /\ next = 1 /\ clean = TRUE
        /\ publisher = [p \in Publishers |-> Idle]

Base(n) == IF n = 0 THEN 0 ELSE links[n].to
Accepted(a, n) == \E i \in 1..n : links[i].attempt = a
RECURSIVE Sum(_, _)
Sum(records, i) == IF i = 0 THEN 0 ELSE Sum(records, i - 1) + records[i].value
(* How often a row counts in a part of the log, beyond what the links up to n say. *)
Surplus(records, i, n) ==
    1 + Cardinality({j \in 1..Len(records) : records[j].ref = i /\ records[j].value = records[i].value})
      - Cardinality({j \in 1..Len(records) : records[j].ref = i /\ records[j].value = 0 - records[i].value})
      - (IF Accepted(records[i].attempt, n) THEN 1 ELSE 0)
Wrong(records, n) == {i \in 1..Len(records) : records[i].ref = 0 /\ Surplus(records, i, n) # 0}
Max(S) == CHOOSE m \in S : \A k \in S : k <= m

Commit == version < Versions /\ version' = version + 1 /\ clean' = FALSE /\ UNCHANGED <<links, log, next, publisher>>

(* Reads the newest link, then the log. *)
Read(p) ==
    /\ publisher[p].pc = "idle"
    /\ publisher' = [publisher EXCEPT ![p] = [Idle EXCEPT !.pc = "heal", !.link = Len(links), !.seen = log]]
    /\ UNCHANGED <<version, links, log, next, clean>>

(* Appends one correction for the newest row that is wrong, and reads again; goes on if none is. *)
Heal(p) ==
    LET me == publisher[p]
        wrong == IF Bug = "no healing" THEN {} ELSE Wrong(me.seen, me.link)
    IN /\ me.pc = "heal"
       /\ IF wrong = {}
          THEN /\ publisher' = [publisher EXCEPT ![p].pc = "plan"] /\ UNCHANGED <<log, clean>>
          ELSE LET i == Max(wrong)
                   sign == IF Surplus(me.seen, i, me.link) > 0 THEN 0 - me.seen[i].value ELSE me.seen[i].value
               IN /\ Len(log) < Records
                  /\ log' = Append(log, [attempt |-> 0, ref |-> i, value |-> sign])
                  /\ clean' = FALSE
                  /\ publisher' = [publisher EXCEPT ![p] = IF Bug = "heal once" THEN [me EXCEPT !.pc = "plan", !.seen = log'] ELSE Idle]
       /\ UNCHANGED <<version, links, next>>

(* The newest snapshot is the one of the link: the run ends. *)
Finish(p) ==
    /\ publisher[p].pc = "plan" /\ Base(publisher[p].link) = version
    /\ publisher' = [publisher EXCEPT ![p] = Idle]
    /\ clean' = IF Len(links) = publisher[p].link /\ Len(log) = Len(publisher[p].seen) THEN TRUE ELSE clean
    /\ UNCHANGED <<version, links, log, next>>

(* It is another one: a new attempt. *)
Plan(p) ==
    /\ publisher[p].pc = "plan" /\ Base(publisher[p].link) # version /\ next <= Attempts
    /\ publisher' = [publisher EXCEPT ![p] = [@ EXCEPT !.pc = "append", !.attempt = next, !.to = version, !.part = 1]]
    /\ next' = next + 1
    /\ UNCHANGED <<version, links, log, clean>>

AppendPart(p) ==
    LET me == publisher[p]
        whole == me.to - Base(me.link)
        value == IF me.part = 1 THEN whole + 1 ELSE 0 - 1
    IN /\ me.pc = "append" /\ Len(log) < Records
       /\ log' = Append(log, [attempt |-> me.attempt, ref |-> 0, value |-> value])
       /\ clean' = FALSE
       /\ publisher' = [publisher EXCEPT ![p] =
              IF me.part = 2 \/ Bug = "link before the rows" THEN [me EXCEPT !.pc = "link"] ELSE [me EXCEPT !.part = 2]]
       /\ UNCHANGED <<version, links, next>>

(* Creates the next link if it is absent; begins again in both cases. *)
Link(p) ==
    LET me == publisher[p]
        number == IF Bug = "the next free number" THEN Len(links) ELSE me.link
    IN /\ me.pc = "link"
       /\ IF Len(links) = number
          THEN links' = Append(links, [attempt |-> me.attempt, from |-> Base(me.link), to |-> me.to])
          ELSE links' = links
       /\ clean' = FALSE
       /\ publisher' = [publisher EXCEPT ![p] = Idle]
       /\ UNCHANGED <<version, log, next>>

Die(p) == publisher[p].pc # "idle" /\ publisher' = [publisher EXCEPT ![p] = Idle] /\ UNCHANGED <<version, links, log, next, clean>>

Next == Commit \/ \E p \in Publishers : Read(p) \/ Heal(p) \/ Finish(p) \/ Plan(p) \/ AppendPart(p) \/ Link(p) \/ Die(p)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
IsAtRest == clean /\ \A p \in Publishers : publisher[p].pc = "idle"
(* At rest the log adds up to the newest snapshot. *)
InvEqual == IsAtRest => Sum(log, Len(log)) = version
(* A link begins where the one before it ends: transactional readers see each change once, in order. *)
InvLinked == \A n \in 1..Len(links) : links[n].from = (IF n = 1 THEN 0 ELSE links[n - 1].to) /\ links[n].from < links[n].to
(* The rows of a link are in the log. *)
InvWhole == \A n \in 1..Len(links) :
    links[n].attempt = 0 \/ Cardinality({i \in 1..Len(log) : log[i].ref = 0 /\ log[i].attempt = links[n].attempt}) = 2
=============================================================================
